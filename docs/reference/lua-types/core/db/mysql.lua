---@meta core.db.mysql

return require "silly.store.mysql"
