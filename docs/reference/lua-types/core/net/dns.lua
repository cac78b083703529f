---@meta core.net.dns

return require "silly.net.dns"
