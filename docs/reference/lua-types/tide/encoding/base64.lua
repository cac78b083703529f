---@meta tide.encoding.base64

return require "silly.encoding.base64"
