---@meta tide.pb.unsafe

return require "silly.pb.unsafe"
