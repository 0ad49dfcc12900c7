-- Give the binding to a Ray cluster up, if it is this cluster's.
--
-- KEYS  binding (hash)
-- ARGV  1 cluster
-- Returns {'ok'} | {'corrupt', what}

if redis.call('HGET', binding, 'cluster') == ARGV[1] then redis.call('DEL', binding) end
return {'ok'}
