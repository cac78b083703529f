-- `hive`: functions that may block, on threads. Called with the functions of Rust.
return function(hive)
  local spawn, invoke = hive.spawn, hive.invoke

  local function settle(ok, ...)
    if not ok then error((...), 0) end
    return ...
  end

  --- `spawn(code, ...)` → worker: runs the code, which returns the function of the worker, at once.
  function hive.spawn(code, ...)
    return settle(spawn(code, ...))
  end

  --- `invoke(worker, ...)` → what the worker's function returns; an error of it is raised here.
  function hive.invoke(worker, ...)
    return settle(invoke(worker, ...))
  end

  return hive
end
