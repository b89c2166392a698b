-- What `xweave flows --json` tells of a trace's flows, their kinds' times and their segments, as far as that can be said
-- of a trace without losses, copies and carriers that come round. {dir} is the trace, {pids} the guests by process.
CREATE TEMP TABLE record AS
    SELECT flow, time_ns, site, kind, domain, v1, v2, v3, v4
    FROM '{dir}/records/*.parquet' WHERE flow IS NOT NULL;
CREATE TEMP TABLE place AS SELECT site, domain || ':' || function AS name, xflow FROM '{dir}/sites.parquet';
CREATE TEMP TABLE side AS
    SELECT flow, time_ns, kind, v1 AS ring, v2 AS at, v3 AS "check",
        CASE WHEN v4 = 0 THEN domain ELSE map_extract({pids}, v4)[1] END AS guest
    FROM record WHERE kind IN ('xin', 'xout');
-- A buffer comes off after it was put on, and it was put on last.
CREATE TEMP TABLE pair AS
    SELECT put.flow AS source, off.flow AS target, put.time_ns AS left_ns
    FROM (SELECT * FROM side WHERE kind = 'xout') off
    ASOF JOIN (SELECT * FROM side WHERE kind = 'xin') put
        ON off.guest = put.guest AND off.ring = put.ring AND off.at = put.at AND off."check" = put."check"
            AND off.time_ns >= put.time_ns;
-- From guest to host, and from host to guest: no path is longer.
CREATE TEMP TABLE member AS
    SELECT DISTINCT flow, flow AS id FROM record WHERE flow NOT IN (SELECT target FROM pair)
    UNION ALL SELECT target, source FROM pair WHERE source NOT IN (SELECT target FROM pair)
    UNION ALL SELECT last.target, first.source FROM pair last JOIN pair first ON last.source = first.target;
-- The records of the path: of what leads on, up to where it does.
CREATE TEMP TABLE step AS
    SELECT member.id, record.time_ns, record.site, record.kind, pair.source IS NULL AS at_end
    FROM record JOIN member USING (flow) LEFT JOIN pair ON pair.source = record.flow
    WHERE pair.left_ns IS NULL OR record.time_ns <= pair.left_ns;
CREATE TEMP TABLE flow AS
    SELECT id, max(time_ns) - min(time_ns) AS total_ns,
        bool_or(kind = 'start') AND bool_or(kind = 'quit' AND at_end) AS complete,
        bool_or(kind = 'xout') AS crossed
    FROM step GROUP BY id;
CREATE TEMP TABLE segment AS
    SELECT source.name AS "from", target.name AS "to", count(*) AS count, min(ns) AS min_ns,
        quantile_disc(ns, 0.5) AS p50_ns, max(ns) AS max_ns
    FROM (SELECT id, time_ns - lag(time_ns) OVER flow AS ns, lag(site) OVER flow AS before, site
          FROM step WINDOW flow AS (PARTITION BY id ORDER BY time_ns)) hop
    JOIN flow USING (id) JOIN place source ON source.site = before JOIN place target ON target.site = hop.site
    WHERE complete GROUP BY ALL;
