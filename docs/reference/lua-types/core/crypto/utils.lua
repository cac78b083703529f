---@meta core.crypto.utils

return require "silly.crypto.utils"
