---@meta tide.store.etcd

return require "silly.store.etcd"
