---@meta tide.net.grpc.registrar

return require "silly.net.grpc.registrar"
