---@meta core.encoding.base64

return require "silly.encoding.base64"
