-- Note which release of Holdfast serves the store from now on: compare-and-set on the one before.
--
-- KEYS  release (hash)
-- ARGV  1 release   2 the one that is noted, or '' for none
-- Returns {'ok'} | {'no'} | {'corrupt', what}

if ARGV[1] == '' then return {'corrupt', 'arguments'} end
local before = redis.call('HGET', release, 'release') or ''
if before == ARGV[1] then return {'ok'} end
if before ~= ARGV[2] then return {'no'} end
redis.call('HSET', release, 'release', ARGV[1])
return {'ok'}
