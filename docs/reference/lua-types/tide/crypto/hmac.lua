---@meta tide.crypto.hmac

return require "silly.crypto.hmac"
