---@meta tide.net.cluster

return require "silly.net.cluster"
