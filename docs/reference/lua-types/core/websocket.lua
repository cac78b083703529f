---@meta core.websocket

return require "silly.net.websocket"
