---@meta tide.net.websocket

return require "silly.net.websocket"
