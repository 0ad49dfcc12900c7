-- Read entries at places in logs, in order, up to a size in bytes.
--
-- KEYS  the log (stream) of each place
-- ARGV  1 the most bytes in all   2 how many are read whatever their size   3... the place (seq) in each log
-- Returns {'ok', bytes, entry, ...}: for each place up to there its entry's fields, 'none' if there is no entry, or 'type' if the
-- key is no stream.

local most, least = integer(ARGV[1]), integer(ARGV[2])
if not most or not least or #ARGV ~= #KEYS + 2 then return {'corrupt', 'arguments'} end
local out, bytes = {'ok', 0}, 0
for i, log in ipairs(KEYS) do
  local entry, size = 'type', 0
  if is(log, 'stream') then
    local id = ARGV[i + 2] .. '-0'
    local found = redis.call('XRANGE', log, id, id)[1]
    entry = found and found[2] or 'none'
    size = found and weight(found[2]) or 0
  end
  if i > least and bytes + size > most then break end
  bytes = bytes + size
  out[#out + 1] = entry
end
out[2] = bytes
return out
