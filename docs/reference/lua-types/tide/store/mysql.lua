---@meta tide.store.mysql

return require "silly.store.mysql"
