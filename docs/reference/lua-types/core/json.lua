---@meta core.json

return require "silly.encoding.json"
