---@meta tide.pb.conv

return require "silly.pb.conv"
