---@meta tide.security.jwt

return require "silly.security.jwt"
