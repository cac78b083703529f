---@meta tide.net.tls

return require "silly.net.tls"
