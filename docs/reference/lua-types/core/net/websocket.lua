---@meta core.net.websocket

return require "silly.net.websocket"
