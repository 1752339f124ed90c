"""What a run tells while it works: to the dashboard's page, to its metrics, and to its performance reports."""
