---@meta tide.encoding.json

return require "silly.encoding.json"
