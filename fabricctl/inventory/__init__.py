"""From files to Fabric and Policy; the only user of pydantic."""
