-- Remove the store's binding if it is to this cluster.
--
-- KEYS  binding (hash)
-- ARGV  1 cluster
-- Returns {'ok'} | {'corrupt', what}

if redis.call('HGET', binding, 'cluster') == ARGV[1] then redis.call('DEL', binding) end
return {'ok'}
