
-- Records of aspects, and where each comes from.
create or replace view sites as select * from read_parquet({sites}, hive_partitioning = false);
create or replace view records as select * from read_parquet({records}, hive_partitioning = false);

-- Flows, as one domain's IDs tell them: one that crosses to another domain has an ID in each (xweave flows joins them).
create or replace view flows as
select flow, any_value(sites.xflow) as xflow, records.domain, min(time_ns) as begin_ns,
    max(time_ns) as end_ns, max(time_ns) - min(time_ns) as ns, count(*) as records
from records left join sites using (site) where flow is not null group by flow, records.domain;

-- How many flows there are of each definition, and how long they take.
create or replace view flow_times as
select domain, xflow, count(*) as flows, quantile_disc(ns, 0.5) as p50_ns, quantile_disc(ns, 0.99) as p99_ns,
    max(ns) as max_ns
from flows group by all;
