---@meta tide.store.redis

return require "silly.store.redis"
