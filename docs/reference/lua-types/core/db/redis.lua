---@meta core.db.redis

return require "silly.store.redis"
