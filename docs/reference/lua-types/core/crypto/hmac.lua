---@meta core.crypto.hmac

return require "silly.crypto.hmac"
