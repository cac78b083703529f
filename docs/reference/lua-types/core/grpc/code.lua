---@meta core.grpc.code

return require "silly.net.grpc.code"
