-- Raise the version of the indexes that the layout names.
--
-- KEYS  layout (hash)
-- ARGV  1 the version
-- Returns {'ok'} | {'corrupt', what}
-- A namespace that is already at this version or a later one stays as it is.

local version = integer(ARGV[1])
if not version then return {'corrupt', 'arguments'} end
local found = redis.call('HGET', layout, 'indexes')
if bad(found) then return {'corrupt', 'the layout: a number is malformed'} end
if tonumber(found or '1') < version then redis.call('HSET', layout, 'indexes', string.format('%d', version)) end
return {'ok'}
