-- Read the pauses as of one moment.
--
-- KEYS  pauses (hash)
-- Returns {'ok', now, {whose, record, ...}} | {'corrupt', what}

return {'ok', clock(), redis.call('HGETALL', pauses)}
