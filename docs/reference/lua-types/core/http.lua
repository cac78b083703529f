---@meta core.http

return require "silly.net.http"
