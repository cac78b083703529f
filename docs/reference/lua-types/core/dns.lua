---@meta core.dns

return require "silly.net.dns"
