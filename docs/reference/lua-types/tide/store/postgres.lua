---@meta tide.store.postgres

return require "silly.store.postgres"
