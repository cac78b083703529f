---@meta tide.pb.io

return require "silly.pb.io"
