-- The argument errors of every file here, which gets this as its second argument.
return function(name, index, value, kind)
  if type(value) ~= kind then
    error(("bad argument #%d to '%s' (%s expected, got %s)"):format(index, name, kind, type(value)), 3)
  end
end
