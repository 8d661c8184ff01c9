
/* platform_data_map is an ordered list. */
	{
		.name = "p5/p5e",
		.regex = "^p5(e?\\..*)",
		.gdr_required = true,
		.env = {
			{ "NCCL_BUFFSIZE", "8388608" },
			{ "NCCL_NETDEVS_POLICY", "max:1" },
		},
	},
	{
		.name = "p3dn.24xlarge",
		.regex = NULL,
		.gdr_required = false,
		.env = {},
	},
