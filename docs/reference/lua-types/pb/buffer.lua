---@meta pb.buffer

return require "silly.pb.buffer"
