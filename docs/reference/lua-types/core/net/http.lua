---@meta core.net.http

return require "silly.net.http"
