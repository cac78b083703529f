---@meta pb.io

return require "silly.pb.io"
