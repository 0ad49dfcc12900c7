-- Give the binding to a Ray cluster up, if it is this cluster's.
--
-- KEYS  1 binding (hash)
-- ARGV  1 cluster
-- Returns {'ok'} | {'corrupt', what}

if not is(KEYS[1], 'hash') then return {'corrupt', 'the binding is no hash'} end
if redis.call('HGET', KEYS[1], 'cluster') == ARGV[1] then redis.call('DEL', KEYS[1]) end
return {'ok'}
