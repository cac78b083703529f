---@meta core.base64

return require "silly.encoding.base64"
