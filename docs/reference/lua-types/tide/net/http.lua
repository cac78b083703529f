---@meta tide.net.http

return require "silly.net.http"
