---@meta core.etcd

return require "silly.store.etcd"
