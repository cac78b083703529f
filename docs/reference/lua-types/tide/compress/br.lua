---@meta tide.compress.br

return require "silly.compress.br"
