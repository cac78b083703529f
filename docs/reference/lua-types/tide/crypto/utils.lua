---@meta tide.crypto.utils

return require "silly.crypto.utils"
