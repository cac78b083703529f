---@meta tide.encoding.hex

return require "silly.encoding.hex"
