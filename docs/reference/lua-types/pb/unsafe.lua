---@meta pb.unsafe

return require "silly.pb.unsafe"
