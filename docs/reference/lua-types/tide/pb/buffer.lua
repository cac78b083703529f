---@meta tide.pb.buffer

return require "silly.pb.buffer"
