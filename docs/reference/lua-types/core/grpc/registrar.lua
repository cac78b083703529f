---@meta core.grpc.registrar

return require "silly.net.grpc.registrar"
