---@meta tide.net.dns

return require "silly.net.dns"
